-- needs: core claim shelf
-- What there is to a question. ARGV: now, its digest, its model, whether a kept answer will do (1); and of the job that is to answer it if
-- nobody has: its id ('' = nobody may join it, and it joins nobody), its pool, its client, lifetime of the claim, the job that is known to
-- give no answer ('' = none).
-- Returns: hit and the answer; none; or what `claim` gives.
local digest, model = ARGV[2], ARGV[3]
if ARGV[4] == '1' then
  local kept = call('GET', P .. 'answer:' .. digest)
  if kept then
    return {'hit', kept}
  end
end
if ARGV[5] == '' then
  return {'none'}
end
local flight = P .. 'flight:' .. digest
local before = call('HMGET', flight, 'at', 'job')
if before[1] and tonumber(before[1]) <= purged(model) then
  -- Its clients wait on, and the last of them is to be known.
  call('RENAME', flight, flight .. ':' .. before[2])
end
return claim(flight, ARGV[5], ARGV[6], digest, ARGV[7], false, ARGV[8], ARGV[9])
