-- needs: core
-- A worker's standing order for a back end. ARGV: now, worker, back end, how long it holds, µs (0: it is taken back); segment, pause,
-- lease, whether it swaps models, as pull.lua and _offer.lua have them; models … . Whoever has one waits for the bell alone: it rings
-- where one is taken back.
local worker, backend, holds = ARGV[2], ARGV[3], tonumber(ARGV[4])
local orders, standing = P .. 'orders:' .. worker, P .. 'standing'
if holds == 0 then
  call('HDEL', orders, backend)
  if call('EXISTS', orders) == 0 then
    call('ZREM', standing, worker)
  end
  call('XADD', P .. 'bell', 'MAXLEN', 16, '*', 'k', 'order')
  return
end
local last = math.ceil(holds / 1000)
-- First what lets go: a script that begins with that is not refused while memory is full.
call('ZREMRANGEBYSCORE', standing, '-inf', int(now))
call('HSET', orders, backend, table.concat(ARGV, ',', 5, 8) .. '\31' .. table.concat(ARGV, '\31', 9) .. '\31')
call('PEXPIRE', orders, last)
call('ZADD', standing, int(now + holds), worker)
call('PEXPIRE', standing, last)
