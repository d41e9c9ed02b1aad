-- needs: core press heir
-- ARGV: now, [id, fence, n0, n, events] …. Returns for each: the number of the last event in the reply key, 'lost' or 'orphan'.
local results = {}
for i = 2, #ARGV, 5 do
  local id, fence, first, last = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local key = P .. 'job:' .. id
  local v = call('HMGET', key, 'st', 'fence', 'n')
  local current = tonumber(v[2] or '-1')
  if not v[1] or current < fence then
    results[#results + 1] = 'orphan'
  elseif v[1] ~= 'running' then
    results[#results + 1] = 'lost'
  elseif current > fence then
    results[#results + 1] = heir(key, ARGV[i + 1], v[2]) and 'orphan' or 'lost'
  elseif tonumber(v[3]) + 1 ~= first then
    results[#results + 1] = tonumber(v[3])
  else
    call('XADD', P .. 'reply:' .. id, 'NOMKSTREAM', int(fence) .. '-' .. int(last), 'k', 'ev', 'n', int(first), 'd', ARGV[i + 4])
    call('HSET', key, 'n', int(last))
    if v[3] == '0' then
      call('HSETNX', key, 'first', int(now))
    end
    results[#results + 1] = last
  end
end
return results
