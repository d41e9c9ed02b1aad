-- needs: core job reply place bell enter finish heir
-- ARGV: now, id, fence, n, why, prefix, base, spent, most attempts, end if they are used up, how long to leave it to other
-- back ends (why = passed: to those that can go on with an answer that has begun). Returns: waiting, ended, lost, orphan.
local fence, why, prefix = tonumber(ARGV[3]), ARGV[5], ARGV[6]
local j = read(ARGV[2])
if not j or j.fence < fence then
  return 'orphan'
end
if j.st ~= 'running' then
  return 'lost'
end
if j.fence > fence then
  return heir(j.key, ARGV[3], int(j.fence)) and 'orphan' or 'lost'
end
local n = math.max(tonumber(ARGV[4]), j.n + 1)
local fails = j.fails
if why == 'error' then
  fails = fails + 1
end
if j.cancel ~= '' then
  local data = call('HGET', j.key, 'cancel_end')
  finish(j, n, j.cancel, data or '')
  return 'ended'
end
if fails > j.fails and fails >= tonumber(ARGV[9]) then
  j.kept = j.det
  finish(j, n, 'failed', ARGV[10])
  call('HSET', j.key, 'fails', int(fails))
  bury(j.id, j.model, j.lane, j.user, 'attempts used up')
  return 'ended'
end
out(j)
local leave = tonumber(ARGV[11])
if leave > 0 then
  call('HSET', j.key, 'left', j.backend, 'left_until', int(now + leave))
  call('ZADD', P .. 'left:' .. j.model, int(now + leave), j.id)
  call('PEXPIRE', P .. 'left:' .. j.model, math.ceil(leave / 1000) + 60000)
end
call('HSET', j.key, 'n', int(n), 'fails', int(fails), 'prefix', prefix, 'base', ARGV[7], 'spent', ARGV[8])
mark(j, n, 'again', prefix, ARGV[8])
frame(j, n, 'again', prefix)
enter(j)
if why == 'passed' then
  -- That it was passed by is no new wait.
  call('HSET', j.key, 'able_until', int(now + leave), 'deadline', int(j.deadline))
end
return 'waiting'
