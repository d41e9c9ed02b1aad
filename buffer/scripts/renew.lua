-- needs: core job
-- ARGV: now, worker, lease, [id, fence, backend] …. Returns for each job: status, inbox.
local worker, lease = ARGV[2], tonumber(ARGV[3])
local ctl = P .. 'ctl:' .. worker
if call('EXPIRE', ctl, 60) == 0 then
  call('XADD', ctl, '*', 'k', 'open')
  call('EXPIRE', ctl, 60)
end
local results = {}
for i = 4, #ARGV, 3 do
  local j, fence, backend = read(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2]
  if not j or j.fence < fence then
    results[#results + 1] = {'orphan', ''}
  elseif j.st ~= 'running' or j.fence > fence then
    results[#results + 1] = {'lost', ''}
  else
    call('ZADD', P .. 'lease', int(now + lease), j.id)
    call('HSET', P .. 'load:' .. backend, j.id, share(j))
    call('HSET', j.key, 'worker', worker, 'backend', backend)
    call('EXPIRE', j.key, JOB_S)
    call('EXPIRE', P .. 'reply:' .. j.id, JOB_S)
    results[#results + 1] = {j.cancel ~= '' and 'cancel' or 'ok', j.inbox}
  end
end
return results
