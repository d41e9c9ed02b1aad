-- needs: core count
-- ARGV: now, model …. Returns: waiting, arrival of the one that waits longest (0: nobody), now.
local waiting, oldest = 0, 0
local function look(key)
  local id = call('ZRANGE', key, 0, 0)[1]
  local arr = id and tonumber(call('HGET', P .. 'job:' .. id, 'arr') or '0') or 0
  if arr > 0 and (oldest == 0 or arr < oldest) then
    oldest = arr
  end
end
for i = 2, #ARGV do
  local some, quiet = people(ARGV[i]), background(ARGV[i])
  waiting = waiting + some + quiet
  if some > 0 then
    look(P .. 'due:' .. ARGV[i])
  end
  if quiet > 0 then
    look(P .. 'wait:' .. ARGV[i] .. ':background')
  end
end
return {waiting, int(oldest), int(now)}
