-- Who waits: how many jobs `user` has (of embeddings: inputs), and how many users there are. Only a full queue is counted through, and
-- once a second: a flood of refusals must not hold up the store.
local function crowd(lane, user)
  local key = P .. (lane == 'background' and 'crowd:background' or 'crowd')
  if call('EXISTS', key) == 0 then
    local inputs_of = several(lane)
    local counts = {}
    for _, model in ipairs(call('ZRANGE', P .. 'models', 0, -1)) do
      local queue = lane == 'background' and 'wait:' .. model .. ':background' or 'due:' .. model
      for _, id in ipairs(call('ZRANGE', P .. queue, 0, -1)) do
        local whose = call('HGET', P .. 'job:' .. id, 'user')
        if whose then
          counts[whose] = (counts[whose] or 0) + tonumber(call('HGET', inputs_of, id) or '1')
        end
      end
    end
    for whose, count in pairs(counts) do
      call('HSET', key, whose, int(count))
    end
    call('PEXPIRE', key, 1000)
  end
  return tonumber(call('HGET', key, user) or '0'), math.max(call('HLEN', key), 1)
end
