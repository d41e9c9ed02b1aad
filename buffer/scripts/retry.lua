-- needs: core job place reply bell enter
-- A job that was given up is tried again from its beginning. ARGV: now, id. Returns: queued, open, gone, without body.
local j = read(ARGV[2])
if not j then
  return 'gone'
end
if j.st ~= 'done' then
  return 'open'
end
if call('HEXISTS', j.key, 'body') == 0 then
  return 'without body'
end
local reply = P .. 'reply:' .. j.id
-- Whoever followed it has been told its end: from now on only its reply key tells of it.
raise(j)
call('HDEL', j.key, 'cancel', 'cancel_end', 'left', 'left_until', 'able_until', 'read', 'first', 'end', 'ended')
call('HSET', j.key, 'inbox', '', 'worker', '', 'backend', '', 'prefix', '', 'base', '', 'spent', '0', 'fails', '0', 'taken', '0',
  'deadline', int(now + j.timeout))
-- How it is to be told stands there.
local head, told = call('XRANGE', reply, '-', '+', 'COUNT', 1)[1], ''
for i = 1, head and #head[2] or 0, 2 do
  if head[2][i] == 'd' and head[1] == '0-1' then
    told = head[2][i + 1]
  end
end
call('DEL', reply)
call('XADD', reply, '0-1', 'k', 'queued', 'n', '0', 'd', told)
call('EXPIRE', reply, JOB_S)
call('EXPIRE', j.key, JOB_S)
j.entry = ''
enter(j)
return 'queued'
