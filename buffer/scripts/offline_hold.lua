-- needs: core press
-- Who runs an offline batch: one at a time, as long as it says so. ARGV: now, batch, holder, fence (0: it wants to begin), lease (µs; 0: it gives it up).
-- Returns: its fence; 0 if another runs it, or it has ended.
local key, me, mine, lease = P .. 'batch:' .. ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local v = call('HMGET', key, 'status', 'holder', 'until', 'fence')
local status, holder, till, fence = v[1], v[2], tonumber(v[3] or '0'), tonumber(v[4] or '0')
if status ~= 'validating' and status ~= 'in_progress' and status ~= 'finalizing' and status ~= 'cancelling' then
  return 0
end
if mine > 0 then
  if mine ~= fence or holder ~= me then
    return 0
  end
elseif holder ~= me and till > now then
  return 0
elseif holder ~= me then
  fence = math.max(fence, now) + 1
  call('HSET', key, 'holder', me, 'fence', int(fence))
end
call('HSET', key, 'until', int(now + lease))
return fence
