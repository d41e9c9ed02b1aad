-- Waiting jobs of a model: people's are those with a due time.
local function people(model)
  return call('ZCARD', P .. 'due:' .. model)
end
local function background(model)
  return call('ZCARD', P .. 'wait:' .. model .. ':background')
end
