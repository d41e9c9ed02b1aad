-- needs: core job reply place bell enter finish
-- Jobs granted to a worker that does not know of it, since the answer to its pull was lost: back to their places, as if they had
-- never been granted. Not those that have begun to answer. ARGV: now, worker, backend, [id, fence] of jobs in hand ….
-- Returns how many, and now: what was granted later was left alone.
local worker, backend = ARGV[2], ARGV[3]
local in_hand = {}
for i = 4, #ARGV, 2 do
  in_hand[ARGV[i]] = tonumber(ARGV[i + 1])
end
local count = 0
for _, id in ipairs(call('HKEYS', P .. 'load:' .. backend)) do
  local j = read(id)
  if j and j.st == 'running' and j.worker == worker and j.backend == backend and j.fence ~= in_hand[id] and j.n == 0 then
    if j.cancel ~= '' then
      finish(j, 1, j.cancel, call('HGET', j.key, 'cancel_end') or '')
    else
      out(j)
      local v = call('HMGET', j.key, 'prefix', 'spent')
      if v[1] ~= '@reply' then
        call('HSET', j.key, 'n', '1')
        mark(j, 1, 'again', v[1] or '', v[2])
        frame(j, 1, 'again', v[1] or '')
      end
      enter(j)
    end
    count = count + 1
  end
end
return {count, int(now)}
