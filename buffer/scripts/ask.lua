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
local at = call('HGET', flight, 'at')
if at and tonumber(at) <= purged(model) then
  call('DEL', flight)
end
return claim(flight, ARGV[5], ARGV[6], digest, ARGV[7], false, ARGV[8], ARGV[9])
