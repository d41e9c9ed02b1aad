-- needs: core offline
-- An offline batch comes to be. ARGV: now, batch, what stays of it as it is, its owner's list, file that it reads, lifetime of its record (s),
-- for how long it reads the file at most (s), most that an owner may have open, most that are known of an owner.
-- Returns: 1; 0 if the file is not there, -1 if the owner has too many open.
local key, file, lifetime = P .. 'batch:' .. ARGV[2], P .. 'file:' .. ARGV[5], tonumber(ARGV[6])
if call('EXISTS', key) == 1 then
  return 1
end
if call('EXISTS', file) == 0 then
  return 0
end
local open = P .. 'open:' .. ARGV[4]
if call('SCARD', open) >= tonumber(ARGV[8]) then
  for _, id in ipairs(call('SMEMBERS', open)) do
    if call('EXISTS', P .. 'batch:' .. id) == 0 then
      call('SREM', open, id)
    end
  end
  if call('SCARD', open) >= tonumber(ARGV[8]) then
    return -1
  end
end
-- The oldest that have ended make room.
local list = P .. 'batches:' .. ARGV[4]
local over = call('ZCARD', list) + 1 - tonumber(ARGV[9])
for _, id in ipairs(over > 0 and call('ZRANGE', list, 0, over + tonumber(ARGV[8])) or {}) do
  if over > 0 and call('SISMEMBER', open, id) == 0 then
    call('DEL', P .. 'batch:' .. id)
    call('ZREM', list, id)
    over = over - 1
  end
end
call('HSET', key, 'record', ARGV[3], 'status', 'validating')
call('EXPIRE', key, lifetime)
call('ZADD', list, 0, ARGV[2])
call('EXPIRE', list, lifetime)
call('SADD', open, ARGV[2])
call('EXPIRE', open, lifetime)
call('ZADD', P .. 'open', int(now), ARGV[2])
call('EXPIRE', P .. 'open', lifetime)
-- The file outlives the reading of it.
for _, read in ipairs({file, P .. 'data:' .. ARGV[5]}) do
  local left = call('TTL', read)
  if left >= 0 and left < tonumber(ARGV[7]) then
    call('EXPIRE', read, tonumber(ARGV[7]))
  end
end
call('SADD', P .. 'readers:' .. ARGV[5], ARGV[2])
call('EXPIRE', P .. 'readers:' .. ARGV[5], tonumber(ARGV[7]))
return 1
