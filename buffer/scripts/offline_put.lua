-- needs: core offline room
-- The next piece of a file that is kept in this store. ARGV: now, file, piece, number of the piece, lifetime until it is whole (s), most bytes of all.
-- Returns: 1; 0 if there is no room for it; -1 if those before it are gone. A piece that was put before is not put twice.
local key, number = P .. 'data:' .. ARGV[2], tonumber(ARGV[4])
local there = call('LLEN', key)
if there > number then
  return 1
end
if there < number then
  return -1
end
if not take(ARGV[2], #ARGV[3], now + tonumber(ARGV[5]) * 1000000, tonumber(ARGV[6])) then
  return 0
end
call('RPUSH', key, ARGV[3])
call('EXPIRE', key, tonumber(ARGV[5]))
return 1
