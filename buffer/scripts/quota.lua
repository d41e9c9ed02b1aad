-- needs: core
-- ARGV: now, name of the key, most in a window, window. Returns: 0 if it may come in, and it is counted; else µs until one may.
-- The instants of the last requests that came in, newest first: so no window anywhere holds more, which a bucket that refills cannot say.
local key, most, window = P .. 'quota:' .. ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local oldest = call('LINDEX', key, most - 1)
if oldest and tonumber(oldest) <= now and now - tonumber(oldest) < window then
  return tonumber(oldest) + window - now
end
call('LPUSH', key, int(now))
call('LTRIM', key, 0, most - 1)
call('PEXPIRE', key, math.ceil(window / 1000))
return 0
