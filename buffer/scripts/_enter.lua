-- Its entry among the open jobs, made anew: that wakes every idle worker that reads it.
local function post(j)
  local jobs = P .. 'jobs:' .. j.lane
  if j.entry ~= '' then
    call('XDEL', jobs, j.entry)
  end
  j.entry = call('XADD', jobs, '*', 'id', j.id, 'model', j.model, 'user', j.user, 'cost', int(j.cost))
end
-- To the place in its queue that its stored values give it.
local function line_up(j)
  local queue = j.model .. ':' .. j.lane
  call('ZADD', P .. 'turn:' .. queue, int(j.tag), turn_member(j))
  if j.inputs > 1 then
    call('HSET', several(j.lane), j.id, int(j.inputs))
  end
  if j.due > 0 then
    call('ZADD', P .. 'due:' .. j.model, int(j.due), j.id)
  end
  -- Last: a job that is here is everywhere.
  call('ZADD', P .. 'wait:' .. queue, int(j.score), j.id)
  ring()
end
-- Into the queue.
local function enter(j)
  post(j)
  j.st = 'waiting'
  call('HSET', j.key, 'st', 'waiting', 'entry', j.entry)
  if j.fence > 0 then
    -- Not for the first time: it is not late because it came long ago.
    call('HSET', j.key, 'deadline', int(now + j.timeout))
  end
  line_up(j)
end
