-- One more client for what an idempotency key stands for. KEYS: the key's hash. ARGV: now, job, pool, digest of the request, client,
-- whether it may leave (1), lifetime, the job that it stands for and that gave no answer ('' = none).
-- Returns: new, other (that request was another), or job, its pool, and how long ago it was claimed.
local key, call = KEYS[1], redis.call
local now = tonumber(ARGV[1])
if now == 0 then
  local t = call('TIME')
  now = tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local v = call('HMGET', key, 'job', 'pool', 'request', 'at')
if v[1] and v[3] ~= ARGV[4] then
  return {'other'}
end
local result = {'new'}
if v[1] and v[1] ~= ARGV[8] then
  result = {'job', v[1], v[2], string.format('%.0f', now - tonumber(v[4]))}
else
  call('DEL', key)
  call('HSET', key, 'job', ARGV[2], 'pool', ARGV[3], 'request', ARGV[4], 'at', string.format('%.0f', now))
end
call('HSET', key, 'client:' .. ARGV[5], '1')
if ARGV[6] == '1' then
  call('HSET', key, 'detached', '1')
end
call('EXPIRE', key, tonumber(ARGV[7]))
return result
