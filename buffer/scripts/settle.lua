-- needs: core job reply place finish heir
-- ARGV: now, id, fence, n, kind, end, real tokens ('' = not known), reason of a dead letter ('' = none); and of the events that came
-- last: the number of the first that the reply key lacks (0: none), those; the number of the first that its gateway lacks (0: none),
-- those ('' = the same); and when its tokens came ('' = not known).
-- Returns: ok, done, lost, orphan (gone, if it was to be dropped), or the number of the last event in the reply key (append the
-- rest first).
local fence, kind, real, reason = tonumber(ARGV[3]), ARGV[5], tonumber(ARGV[7]), ARGV[8]
local key = P .. 'job:' .. ARGV[2]
-- As much of its record as the end of a job takes that does not wait.
local v = call('HMGET', key, 'st', 'fence', 'n', 'model', 'lane', 'user', 'inbox', 'entry', 'backend', 'det', 'cancel', 'tag', 'cost',
  'first')
local j = v[1] and {
  id = ARGV[2], key = key, st = v[1], fence = tonumber(v[2]), under = v[2], n = tonumber(v[3]), model = v[4], lane = v[5], user = v[6],
  inbox = v[7], entry = v[8] or '', backend = v[9] or '', det = v[10] == '1', cancel = v[11] or '', tag = tonumber(v[12]),
  cost = tonumber(v[13]),
}
if not j or j.fence < fence then
  return kind == 'drop' and 'gone' or 'orphan'
end
if j.fence > fence then
  return j.st == 'running' and heir(j.key, ARGV[3], j.under) and 'orphan' or 'lost'
end
if j.st == 'done' then
  return 'done'
end
if j.st ~= 'running' and j.st ~= 'held' then
  return 'lost'
end
local n = tonumber(ARGV[4])
local first, lacks = tonumber(ARGV[9] or '0'), tonumber(ARGV[11] or '0')
-- What its record is told besides its end.
local noted = {}
if first > 0 and first == j.n + 1 and j.st == 'running' and kind ~= 'drop' then
  -- First a release: so what ends, and will free memory, gets through also when that is full.
  call('DEL', P .. 'none')
  j.n = n - 1
  local last = int(j.n)
  call('XADD', P .. 'reply:' .. j.id, 'NOMKSTREAM', j.under .. '-' .. last, 'k', 'ev', 'n', int(first), 'd', ARGV[10])
  noted = {'n', last, 'first', v[14] or NOW}
end
if kind == 'done' and n ~= j.n + 1 then
  return j.n
end
if kind == 'drop' then
  erase(j)
  return 'ok'
end
local data = ARGV[6]
if kind == 'cancelled' and j.cancel ~= '' then
  -- As whoever cancelled it said.
  kind, data = j.cancel, call('HGET', j.key, 'cancel_end') or data
end
local said
if lacks > 0 then
  said = {'m', ARGV[11], 'e', ARGV[12] ~= '' and ARGV[12] or ARGV[10]}
end
if ARGV[13] ~= '' then
  noted[#noted + 1], noted[#noted + 2] = 'pace', ARGV[13]
end
finish(j, math.max(n, j.n + 1), kind, data, said, noted)
if real then
  -- The user's next turn by what was really used. Where it had been dropped, only a turn that lies ahead is worth keeping.
  local fair = P .. 'fair:' .. j.model .. ':' .. j.lane
  local clock, account = unpack(call('ZMSCORE', fair, 'V', 'u:' .. j.user))
  local turn = account and tonumber(account) + real - j.cost or j.tag + real
  if account or turn > tonumber(clock or '0') then
    call('ZADD', fair, int(math.max(turn, 0)), 'u:' .. j.user)
    if not account then
      call('EXPIRE', fair, '3600')
    end
  end
end
if reason ~= '' then
  bury(j.id, j.model, j.lane, j.user, reason)
end
return 'ok'
