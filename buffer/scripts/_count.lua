-- Of the models that ARGV names from there on: those that jobs came for lately. Of most that a back end has, none ever comes.
local function asked(from)
  local known, some = {}, {}
  for _, model in ipairs(call('ZRANGE', P .. 'models', '0', '-1')) do
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
-- Whether a person's job waits for any of them.
local function anybody(models)
  for _, model in ipairs(models) do
    if people(model) > 0 then
      return true
    end
  end
  return false
end
-- How many jobs wait for them, of whomever.
local function everybody(models)
  local waiting = 0
  for _, model in ipairs(models) do
    waiting = waiting + people(model) + background(model)
  end
  return waiting
end
