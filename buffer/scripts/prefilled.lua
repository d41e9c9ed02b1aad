-- needs: core press job
-- The first token has come: the job's prefill credit is free. ARGV: now, [id, fence] …. Returns how many it held for.
local count = 0
for i = 2, #ARGV, 2 do
  local j = read(ARGV[i])
  if j and j.st == 'running' and j.fence == tonumber(ARGV[i + 1]) and j.read ~= j.fence then
    j.read = j.fence
    call('HSET', j.key, 'read', int(j.fence))
    call('HSETNX', j.key, 'first', int(now))
    call('HSET', P .. 'load:' .. j.backend, j.id, share(j))
    count = count + 1
  end
end
return count
