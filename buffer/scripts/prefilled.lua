-- needs: core press job
-- ARGV: now, [id, fence, up to which token of its prompt was read; 0: the first token of its answer has come] …. What that took of its back
-- end's prefill credit is free. Returns how many it held for.
local count = 0
for i = 2, #ARGV, 3 do
  local j, upto = read(ARGV[i]), tonumber(ARGV[i + 2])
  if j and j.st == 'running' and j.fence == tonumber(ARGV[i + 1]) and j.read ~= j.fence then
    if upto == 0 then
      j.read, j.upto = j.fence, j.prompt
      call('HSET', j.key, 'read', int(j.fence), 'upto', int(j.upto))
      call('HSETNX', j.key, 'first', int(now))
    else
      j.had = math.min(j.upto, math.max(j.had, upto))
      call('HSET', j.key, 'had', int(j.had))
    end
    call('HSET', P .. 'load:' .. j.backend, j.id, share(j))
    count = count + 1
  end
end
return count
