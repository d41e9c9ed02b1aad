-- needs: core job reply place bell enter finish
-- A gateway's jobs: their lives are begun anew, their frames come to the inbox named, those that waited too long end, and one that has
-- lost its place or its lease, by whatever hand, gets it back.
-- ARGV: now, inbox, expired end, id …. Returns: whether the inbox was there, then state and fence for each job.
local inbox, AT_ONCE, LEASE = ARGV[2], 64, 15000000
local results = {call('EXPIRE', P .. 'inbox:' .. inbox, 15)}
call('EXPIRE', P .. 'models', 86400)
local ended = 0
for i = 4, #ARGV do
  local key = P .. 'job:' .. ARGV[i]
  local v = call('HMGET', key, 'st', 'fence', 'inbox', 'deadline', 'model', 'lane', 'due')
  local st, fence = v[1], v[2]
  if st == 'waiting' and tonumber(v[4]) < now and ended < AT_ONCE then
    -- Whoever pulls it would end it; but while all engines are busy, nobody pulls.
    local j = read(ARGV[i])
    j.inbox = inbox
    raise(j)
    finish(j, 1, 'expired', ARGV[3])
    st, fence, ended = 'done', int(j.fence), ended + 1
  elseif st and st ~= 'done' then
    call('EXPIRE', key, JOB_S)
    call('EXPIRE', P .. 'reply:' .. ARGV[i], JOB_S)
    if v[3] ~= inbox and results[1] == 1 then
      call('HSET', key, 'inbox', inbox)
    end
    if st == 'waiting' then
      local placed = call('ZSCORE', P .. 'wait:' .. v[5] .. ':' .. v[6], ARGV[i])
      if not placed or (v[7] ~= '0' and not call('ZSCORE', P .. 'due:' .. v[5], ARGV[i])) then
        enter(read(ARGV[i]))
      end
    elseif not call('ZSCORE', P .. 'lease', ARGV[i]) then
      call('ZADD', P .. 'lease', int(now + LEASE), ARGV[i])
    end
  end
  results[#results + 1] = st or 'gone'
  results[#results + 1] = fence or '0'
end
return results
