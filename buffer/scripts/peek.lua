-- needs: core count places
-- ARGV: now, the back end that asks ('': none), its places, model …. Returns: waiting, arrival of the one that waits longest (0: nobody), now.
local waiting, oldest = 0, 0
local function look(key)
  local id = call('ZRANGE', key, 0, 0)[1]
  local arr = id and tonumber(call('HGET', P .. 'job:' .. id, 'arr') or '0') or 0
  if arr > 0 and (oldest == 0 or arr < oldest) then
    oldest = arr
  end
end
for _, model in ipairs(asked(4)) do
  if ARGV[2] ~= '' then
    note_places(ARGV[2], tonumber(ARGV[3]), model)
  end
  local some, quiet = people(model), background(model)
  waiting = waiting + some + quiet
  if some > 0 then
    look(P .. 'due:' .. model)
  end
  if quiet > 0 then
    look(P .. 'wait:' .. model .. ':background')
  end
end
return {waiting, int(oldest), int(now)}
