-- needs: core
-- Who decides about a spare: one worker, as long as it says so. ARGV: now, back end, worker, lease (µs; 0: it does not want to, or no longer),
-- lifetime of what is noted (s), fence of whoever notes something, what it notes ('': nothing).
-- Returns: 1 if this worker decides, the fence, what was noted last.
local key, me, lease = P .. 'spare:' .. ARGV[2], ARGV[3], tonumber(ARGV[4])
local held = call('HMGET', key, 'owner', 'until', 'fence')
local owner, till, fence = held[1], tonumber(held[2] or '0'), tonumber(held[3] or '0')
if owner ~= me and till <= now and lease > 0 then
  owner, fence = me, math.max(fence, now) + 1
  call('HSET', key, 'owner', me, 'fence', int(fence))
end
if owner == me then
  if ARGV[7] ~= '' and tonumber(ARGV[6]) == fence then
    call('HSET', key, 'stand', ARGV[7])
  end
  call('HSET', key, 'until', int(now + lease))
  call('EXPIRE', key, tonumber(ARGV[5]))
end
local mine = owner == me and lease > 0
return {mine and 1 or 0, int(fence), call('HGET', key, 'stand') or ''}
