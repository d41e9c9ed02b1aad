-- needs: core job heir
-- ARGV: now, worker, lease, how long its standing orders hold, µs (0: it has none), [id, fence, backend] …. Returns for each job: status,
-- inbox, with adopt: the new fence, and the number of the last event that the gateway had under the old one; up to which token its
-- prompt may be read (0: all of it); and whether it was asked lately to give its place back.
local worker, lease = ARGV[2], tonumber(ARGV[3])
local ctl = P .. 'ctl:' .. worker
if call('EXPIRE', ctl, 60) == 0 then
  call('XADD', ctl, '*', 'k', 'open')
  call('EXPIRE', ctl, 60)
end
local holds = tonumber(ARGV[4])
if holds > 0 then
  local held = tonumber(call('ZSCORE', P .. 'standing', worker) or '0')
  if call('PEXPIRE', P .. 'orders:' .. worker, math.ceil(holds / 1000)) == 1 then
    call('ZADD', P .. 'standing', int(now + holds), worker)
    call('PEXPIRE', P .. 'standing', math.ceil(holds / 1000))
  else
    held = 0
  end
  if held < now then
    -- They did not hold any more, or the store has lost them. Whoever trusts in them has to hear of that.
    call('XADD', P .. 'bell', 'MAXLEN', 16, '*', 'k', 'order')
  end
end
local results = {}
for i = 5, #ARGV, 3 do
  local j, fence, backend = read(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2]
  local result
  if not j or j.fence < fence then
    result = {'orphan', ''}
  elseif j.st ~= 'running' then
    result = {'lost', ''}
  elseif j.fence == fence then
    result = {j.cancel ~= '' and 'cancel' or 'ok', j.inbox}
  elseif heir(j.key, ARGV[i + 1], int(j.fence)) then
    -- Noted with both fences: the answer may get lost, and then it is asked for again.
    call('HDEL', j.key, 'adopt')
    call('HSET', j.key, 'adopted', ARGV[i + 1] .. ':' .. int(j.fence))
    call('HDEL', P .. 'load:' .. j.backend, j.id)
    result = {'adopt', j.inbox, int(j.fence), tonumber(call('HGET', j.key, 'have') or '0')}
  else
    result = {'lost', ''}
  end
  if result[1] ~= 'orphan' and result[1] ~= 'lost' then
    call('ZADD', P .. 'lease', int(now + lease), j.id)
    call('HSET', P .. 'load:' .. backend, j.id, share(j))
    call('HSET', j.key, 'worker', worker, 'backend', backend)
    call('EXPIRE', j.key, JOB_S)
    call('EXPIRE', P .. 'reply:' .. j.id, JOB_S)
  end
  for k = #result + 1, 4 do
    result[k] = 0
  end
  result[5] = result[1] == 'ok' and j.upto < j.prompt and j.upto or 0
  result[6] = 0
  if j and j.lane == 'background' and result[1] == 'ok' then
    -- The word of a pull may have been lost. Whoever wanted the place long ago has another by now, or left.
    result[6] = now - tonumber(call('HGET', j.key, 'yield') or '0') < lease and 1 or 0
  end
  results[#results + 1] = result
end
return results
