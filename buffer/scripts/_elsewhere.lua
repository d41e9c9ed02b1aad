-- The other back ends of a model, and for how long a job is left to one of them, as policy/placing.py has it.
local NEAR, EMPTIER, BEHIND = 250000, 25000, 10000000
local function elsewhere_of(backend, slots)
  local others, known = {}, {}
  -- Their places.
  local function others_of(model)
    if not others[model] then
      others[model] = {}
      local all = call('HGETALL', P .. 'places:' .. model)
      for i = 1, #all, 2 do
        if all[i] ~= backend then
          others[model][all[i]] = tonumber(all[i + 1])
        end
      end
    end
    return others[model]
  end
  -- How many jobs run there, if a worker tells that it is up; else nil.
  local function taken(name)
    if known[name] == nil then
      local state = call('GET', P .. 'state:' .. name) or ''
      local function told(word)
        return string.find(state, word, 1, true)
      end
      local able = told('"up":true') and not told('"breaker_open":true') and not told('"trial":true')
      known[name] = able and call('HLEN', P .. 'load:' .. name) or false
    end
    return known[name] or nil
  end
  -- Whether a job of the model could begin there now, without loading another one first.
  local function free(name, model)
    local places, jobs = others_of(model)[name], taken(name)
    if not places or not jobs or jobs >= places then
      return false
    end
    local loaded = call('HGET', P .. 'memory:' .. name, 'model')
    return not loaded or loaded == model
  end
  local elsewhere = {}
  -- Whether another back end has the model in memory, and a place.
  function elsewhere.ready(model)
    for name in pairs(others_of(model)) do
      if call('HGET', P .. 'memory:' .. name, 'model') == model and free(name, model) then
        return true
      end
    end
    return false
  end
  -- How long a job is left to others; `jobs`: how many run here. 0: it may go.
  function elsewhere.left(j, jobs)
    local age = now - j.arr
    if j.behind ~= '' and age < BEHIND then
      local leader = call('HMGET', P .. 'job:' .. j.behind, 'st', 'backend', 'fence', 'read')
      if leader[1] == 'running' and leader[2] == backend and leader[4] ~= leader[3] then
        return BEHIND - age
      end
    end
    if j.near == backend then
      return 0
    end
    if age < NEAR and j.near ~= '' and free(j.near, j.model) then
      return NEAR - age
    end
    if age < EMPTIER then
      for name, places in pairs(others_of(j.model)) do
        if free(name, j.model) and taken(name) * slots < jobs * places then
          return EMPTIER - age
        end
      end
    end
    return 0
  end
  return elsewhere
end
