-- needs: core job reply place bell enter
-- ARGV: now, id, fence seen, snapshot, base, spent, inbox. Returns: status, fence.
local j = read(ARGV[2])
if not j then
  return {'gone', '0'}
end
if j.st == 'done' or j.fence ~= tonumber(ARGV[3]) then
  return {j.st, int(j.fence)}
end
local freed = out(j)
raise(j)
j.inbox = ARGV[7]
call('HSET', j.key, 'prefix', ARGV[4], 'base', ARGV[5], 'spent', ARGV[6], 'inbox', j.inbox)
call('EXPIRE', j.key, JOB_S)
call('EXPIRE', P .. 'reply:' .. j.id, JOB_S)
mark(j, 0, 'snap', ARGV[4], ARGV[6])
enter(j)
if freed > 0 then
  call('XADD', P .. 'bell', 'MAXLEN', 16, '*', 'k', 'requeue')
end
return {'queued', int(j.fence)}
