-- How much of files and results is kept in this store: hash id → bytes, with their sum; sorted set id → until when, µs.
local held, ends = P .. 'room', P .. 'room:ends'
local function free(id)
  local bytes = call('HGET', held, id)
  if bytes then
    call('HINCRBY', held, 'sum', -tonumber(bytes))
    call('HDEL', held, id)
    call('ZREM', ends, id)
  end
end
-- Whether there is room for so many bytes more under this id; they are kept until then. ``most``: of all.
local function take(id, bytes, till, most)
  for _, gone in ipairs(call('ZRANGEBYSCORE', ends, '-inf', int(now), 'LIMIT', 0, 100)) do
    free(gone)
  end
  if tonumber(call('HGET', held, 'sum') or '0') + bytes > most then
    return false
  end
  call('HINCRBY', held, 'sum', bytes)
  call('HINCRBY', held, id, bytes)
  call('ZADD', ends, int(till), id)
  call('EXPIRE', held, ROOM_S)
  call('EXPIRE', ends, ROOM_S)
  return true
end
