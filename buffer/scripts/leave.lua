-- A client of what an idempotency key stands for has gone. KEYS: the key's hash. ARGV: now, job, client, why (left, answered, failed),
-- lifetime of an answer. Returns 1 if it was the last that waited: the job is for nobody any more.
local key, call = KEYS[1], redis.call
if call('HGET', key, 'job') ~= ARGV[2] then
  -- Where another job stands in its place by now, see `ask`.
  key = key .. ':' .. ARGV[2]
  if call('HGET', key, 'job') ~= ARGV[2] then
    return 0
  end
end
if ARGV[4] == 'answered' then
  call('EXPIRE', key, tonumber(ARGV[5]))
  return 0
end
if ARGV[4] == 'failed' then
  -- No answer: the next one starts anew.
  call('DEL', key)
  return 0
end
call('HDEL', key, 'client:' .. ARGV[3])
if call('HEXISTS', key, 'detached') == 1 then
  return 0
end
for _, field in ipairs(call('HKEYS', key)) do
  if string.sub(field, 1, 7) == 'client:' then
    return 0
  end
end
call('DEL', key)
return 1
