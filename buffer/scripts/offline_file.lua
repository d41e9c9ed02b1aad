-- needs: core offline room
-- A file is whole, and there. ARGV: now, file, its record, its owner's list, lifetime (s), most files of an owner (0: any number).
-- Returns: 1; 0 if the owner has too many.
local list, lifetime = P .. 'files:' .. ARGV[4], tonumber(ARGV[5])
local most = tonumber(ARGV[6])
if most > 0 and not call('ZSCORE', list, ARGV[2]) and call('ZCARD', list) >= most then
  for _, id in ipairs(call('ZRANGE', list, 0, -1)) do
    if call('EXISTS', P .. 'file:' .. id) == 0 then
      call('ZREM', list, id)
    end
  end
  if call('ZCARD', list) >= most then
    return 0
  end
end
call('SET', P .. 'file:' .. ARGV[2], ARGV[3], 'EX', lifetime)
call('ZADD', list, 0, ARGV[2])
call('EXPIRE', list, math.max(lifetime, ROOM_S))
if call('EXPIRE', P .. 'data:' .. ARGV[2], lifetime) == 1 then
  call('ZADD', ends, int(now + lifetime * 1000000), ARGV[2])
end
return 1
