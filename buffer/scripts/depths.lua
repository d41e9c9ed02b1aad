-- needs: core
-- ARGV: now. Returns for each lane, in order of preference: waiting, longest wait (looked for among the eight of each queue that come next).
local models = call('ZRANGE', P .. 'models', 0, -1)
local results = {}
for _, lane in ipairs({'thinking', 'fast', 'normal', 'slow', 'background'}) do
  local waiting, oldest = 0, now
  for _, model in ipairs(models) do
    local key = P .. 'wait:' .. model .. ':' .. lane
    local count = call('ZCARD', key)
    if count > 0 then
      waiting = waiting + count
      for _, id in ipairs(call('ZRANGE', key, 0, 7)) do
        oldest = math.min(oldest, tonumber(call('HGET', P .. 'job:' .. id, 'arr') or int(now)))
      end
    end
  end
  results[#results + 1] = waiting
  results[#results + 1] = int(now - oldest)
end
return results
