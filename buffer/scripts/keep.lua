-- needs: core shelf
-- A question's answer has ended. ARGV: now, the question's digest, its model, the answer ('' = it is not to be kept), lifetime in
-- microseconds, most bytes of all kept answers, how long ago the question came, the job that others may join for it ('' = none).
-- Returns 1 if it is kept.
local digest, model, data = ARGV[2], ARGV[3], ARGV[4]
local ttl, most = tonumber(ARGV[5]), tonumber(ARGV[6])
local flight = P .. 'flight:' .. digest
if ARGV[8] ~= '' then
  call('DEL', call('HGET', flight, 'job') == ARGV[8] and flight or flight .. ':' .. ARGV[8])
end
local size = #data + 512
if data == '' or size > most or purged(model) >= now - tonumber(ARGV[7]) then
  return 0
end
for _, old in ipairs(call('ZRANGEBYSCORE', P .. 'answers', '-inf', int(now), 'LIMIT', 0, 128)) do
  drop(old)
end
drop(digest)
-- The oldest go first.
while tonumber(call('GET', P .. 'held') or '0') + size > most do
  local oldest = call('ZRANGE', P .. 'answers', 0, 0)[1]
  if not oldest then
    call('DEL', P .. 'held')
    break
  end
  drop(oldest)
end
call('SET', P .. 'answer:' .. digest, data, 'PX', int(math.max(1, ttl / 1000)))
call('ZADD', P .. 'answers', int(now + ttl), digest)
call('HSET', P .. 'about', digest, size .. ' ' .. model)
call('INCRBY', P .. 'held', size)
-- Another gateway's may live longer.
local lifetime = math.max(math.ceil(ttl / 1000000) + 60, call('TTL', P .. 'held'))
for _, name in ipairs({'answers', 'about', 'held'}) do
  call('EXPIRE', P .. name, lifetime)
end
return 1
