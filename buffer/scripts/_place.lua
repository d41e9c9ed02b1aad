local function turn_member(j)
  return string.format('%016.0f', j.score) .. ':' .. j.id
end
-- Hash: waiting job of embeddings → its inputs, if they are several.
local function several(lane)
  return P .. (lane == 'background' and 'inputs:background' or 'inputs')
end
-- Out of every order, lease and credit. Releases only, so it runs also when memory is full, and so do the writes after it.
-- Gives how many places at back ends became free.
local function out(j)
  local queue = j.model .. ':' .. j.lane
  call('ZREM', P .. 'wait:' .. queue, j.id)
  call('ZREM', P .. 'turn:' .. queue, turn_member(j))
  call('ZREM', P .. 'due:' .. j.model, j.id)
  call('ZREM', P .. 'lease', j.id)
  if j.inputs > 1 then
    call('HDEL', several(j.lane), j.id)
  end
  if j.backend ~= '' then
    return call('HDEL', P .. 'load:' .. j.backend, j.id)
  end
  local freed = 0
  for _, backend in ipairs(call('SMEMBERS', P .. 'backends')) do
    freed = freed + call('HDEL', P .. 'load:' .. backend, j.id)
  end
  return freed
end
-- A new owner, or none: whatever the old one still sends is behind this fence.
local function raise(j)
  call('HDEL', j.key, 'adopt', 'have', 'floor')
  j.fence = math.max(now, j.fence + 1)
  j.n = 0
  call('HSET', j.key, 'fence', int(j.fence), 'n', '0')
end
