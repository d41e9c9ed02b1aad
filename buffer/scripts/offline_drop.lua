-- needs: core offline room
-- A file goes, whole or not. ARGV: now, file, its owner's list.
-- Returns: 1 if it went, 0 if there was none, -1 if an offline batch reads it.
local key = P .. 'file:' .. ARGV[2]
if call('SCARD', P .. 'readers:' .. ARGV[2]) > 0 then
  return -1
end
local there = call('EXISTS', key)
call('DEL', key, P .. 'data:' .. ARGV[2])
call('ZREM', P .. 'files:' .. ARGV[3], ARGV[2])
free(ARGV[2])
return there
