-- needs: core press job reply place finish
-- ARGV: now, id, kind of the end, end. Returns: gone, done, cancelled, running (its worker has been told).
local j = read(ARGV[2])
if not j then
  return 'gone'
end
if j.st == 'done' then
  return 'done'
end
if j.st ~= 'running' then
  raise(j)
  finish(j, 1, ARGV[3], ARGV[4])
  return 'cancelled'
end
if j.cancel == '' then
  call('HSET', j.key, 'cancel', ARGV[3], 'cancel_end', ARGV[4])
  call('XADD', P .. 'ctl:' .. j.worker, 'NOMKSTREAM', 'MAXLEN', 1000, '*', 'k', 'cancel', 'id', j.id, 'f', int(j.fence))
end
return 'running'
