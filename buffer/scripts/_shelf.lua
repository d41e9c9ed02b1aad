-- Kept answers: `answers`, by when they end; `about`, what each takes and its model; `held`, bytes of all.
-- Takes one away. Gives whether it was still there.
local function drop(digest)
  local about = call('HGET', P .. 'about', digest)
  if about then
    call('DECRBY', P .. 'held', string.match(about, '^%d+'))
    call('HDEL', P .. 'about', digest)
  end
  call('ZREM', P .. 'answers', digest)
  return call('DEL', P .. 'answer:' .. digest)
end
-- When the answers of a model were last asked to be forgotten, or those of all models; 0: not lately.
local function purged(model)
  local v = call('HMGET', P .. 'purged', '*', model)
  return math.max(tonumber(v[1] or '0'), tonumber(v[2] or '0'))
end
