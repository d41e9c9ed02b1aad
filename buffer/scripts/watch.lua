-- needs: core job reply place finish
-- A gateway's jobs: their lives are begun anew, their frames come to the inbox named, and those that waited too long end.
-- ARGV: now, inbox, expired end, id …. Returns: whether the inbox was there, then state and fence for each job.
local inbox, AT_ONCE = ARGV[2], 64
local results = {call('EXPIRE', P .. 'inbox:' .. inbox, 15)}
call('EXPIRE', P .. 'models', 86400)
local ended = 0
for i = 4, #ARGV do
  local key = P .. 'job:' .. ARGV[i]
  local v = call('HMGET', key, 'st', 'fence', 'inbox', 'deadline')
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
  end
  results[#results + 1] = st or 'gone'
  results[#results + 1] = fence or '0'
end
return results
