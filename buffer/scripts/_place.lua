-- Its score in 16 digits goes first.
local function turn_member(j)
  return string.sub('0000000000000000' .. int(j.score), -16) .. ':' .. j.id
end
-- Hash: waiting job of embeddings → its inputs, if they are several.
local function several(lane)
  return P .. (lane == 'background' and 'inputs:background' or 'inputs')
end
-- Out of every order, or of lease and credit: whoever waits has none of these, whoever does not stands in no order.
-- Releases only, so it runs also when memory is full, and so do the writes after it. Gives how many places at back ends became free.
local function out(j)
  if j.st == 'waiting' then
    local queue = j.model .. ':' .. j.lane
    call('ZREM', P .. 'wait:' .. queue, j.id)
    call('ZREM', P .. 'turn:' .. queue, turn_member(j))
    if j.due > 0 then
      call('ZREM', P .. 'due:' .. j.model, j.id)
    end
    if j.inputs > 1 then
      call('HDEL', several(j.lane), j.id)
    end
    return 0
  end
  call('ZREM', P .. 'lease', j.id)
  if j.backend ~= '' then
    return call('HDEL', P .. 'load:' .. j.backend, j.id)
  end
  local freed = 0
  for _, backend in ipairs(call('SMEMBERS', P .. 'backends')) do
    freed = freed + call('HDEL', P .. 'load:' .. backend, j.id)
  end
  return freed
end
-- A new owner, or none: whatever the old one still sends is behind this fence. What is told besides is noted in the same breath.
local function raise(j, ...)
  if j.floor then
    call('HDEL', j.key, 'adopt', 'have', 'floor')
  end
  j.fence = math.max(now, j.fence + 1)
  j.n, j.under = 0, j.fence == now and NOW or int(j.fence)
  call('HSET', j.key, 'fence', j.under, 'n', '0', ...)
end
