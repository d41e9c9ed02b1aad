-- needs: core
-- ARGV: now, inbox, id …. Returns: whether the inbox was there, then state and fence for each job.
local results = {call('EXPIRE', P .. 'inbox:' .. ARGV[2], 15)}
call('EXPIRE', P .. 'models', 86400)
for i = 3, #ARGV do
  local key = P .. 'job:' .. ARGV[i]
  local v = call('HMGET', key, 'st', 'fence')
  if v[1] and v[1] ~= 'done' then
    call('EXPIRE', key, 3600)
    call('EXPIRE', P .. 'reply:' .. ARGV[i], 3600)
  end
  results[#results + 1] = v[1] or 'gone'
  results[#results + 1] = v[2] or '0'
end
return results
