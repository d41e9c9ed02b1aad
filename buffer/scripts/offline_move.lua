-- needs: core press offline room
-- An offline batch gets another status. ARGV: now, batch, fence of its runner (0: whoever asks), status that it has, status that it gets, 1 if that is an end,
-- lifetime of its record from then on (s), owner's list, file that it read, then fields and their values.
-- Returns: 1; 0 if its status is another by now; -1 if another runs it.
local key = P .. 'batch:' .. ARGV[2]
local v = call('HMGET', key, 'status', 'fence')
if tonumber(ARGV[3]) > 0 and v[2] ~= ARGV[3] then
  return -1
end
if v[1] ~= ARGV[4] then
  return 0
end
call('HSET', key, 'status', ARGV[5])
for i = 10, #ARGV, 2 do
  call('HSETNX', key, ARGV[i], ARGV[i + 1])
end
if ARGV[6] == '1' then
  call('HDEL', key, 'holder', 'until')
  call('EXPIRE', key, tonumber(ARGV[7]))
  call('ZREM', P .. 'open', ARGV[2])
  call('SREM', P .. 'open:' .. ARGV[8], ARGV[2])
  call('SREM', P .. 'readers:' .. ARGV[9], ARGV[2])
  for _, part in ipairs({'done:', 'lines:', 'output:', 'errors:'}) do
    call('DEL', P .. part .. ARGV[2])
  end
  free(ARGV[2])
end
return 1
