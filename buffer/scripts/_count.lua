-- Of the models that ARGV names from there on: those that jobs came for lately. Of most that a back end has, none ever comes.
local function asked(from)
  local known, some = {}, {}
  for _, model in ipairs(call('ZRANGE', P .. 'models', 0, -1)) do
    known[model] = true
  end
  for i = from, #ARGV do
    if known[ARGV[i]] then
      some[#some + 1] = ARGV[i]
    end
  end
  return some
end
-- Waiting jobs of a model: people's are those with a due time.
local function people(model)
  return call('ZCARD', P .. 'due:' .. model)
end
local function background(model)
  return call('ZCARD', P .. 'wait:' .. model .. ':background')
end
