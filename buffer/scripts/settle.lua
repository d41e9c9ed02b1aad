-- needs: core job reply place finish
-- ARGV: now, id, fence, n, kind, end, real tokens ('' = not known), reason of a dead letter ('' = none).
-- Returns: ok, done, lost, gone, or the number of the last event in the reply key (append the rest first).
local fence, kind, real, reason = tonumber(ARGV[3]), ARGV[5], tonumber(ARGV[7]), ARGV[8]
local j = read(ARGV[2])
if not j or j.fence < fence then
  return 'gone'
end
if j.fence > fence then
  return 'lost'
end
if j.st == 'done' then
  return 'done'
end
if j.st ~= 'running' and j.st ~= 'held' then
  return 'lost'
end
local n = tonumber(ARGV[4])
if kind == 'done' and n ~= j.n + 1 then
  return j.n
end
if kind == 'drop' then
  erase(j)
  return 'ok'
end
local fair = P .. 'fair:' .. j.model .. ':' .. j.lane
local clock = call('HMGET', fair, 'V', 'u:' .. j.user)
finish(j, math.max(n, j.n + 1), kind, ARGV[6])
if real then
  -- The user's next turn by what was really used. Where it had been dropped, only a turn that lies ahead is worth keeping.
  local turn = clock[2] and tonumber(clock[2]) + real - j.cost or j.tag + real
  if clock[2] or turn > tonumber(clock[1] or '0') then
    call('HSET', fair, 'u:' .. j.user, int(math.max(turn, 0)))
    call('EXPIRE', fair, 3600)
  end
end
if reason ~= '' then
  bury(j.id, j.model, j.lane, j.user, reason)
end
return 'ok'
