-- One more client for what is asked for by several. `request`: what tells it from another by the same name. `stays`: it may leave.
-- `instead`: the job that it stands for and that gave no answer ('' = none). Gives: new, other (that request was another), or job, its
-- pool, and how long ago it was claimed.
local function claim(key, job, pool, request, client, stays, lifetime, instead)
  local v = call('HMGET', key, 'job', 'pool', 'request', 'at')
  if v[1] and v[3] ~= request then
    return {'other'}
  end
  local result = {'new'}
  if v[1] and v[1] ~= instead then
    result = {'job', v[1], v[2], string.format('%.0f', now - tonumber(v[4]))}
  else
    call('DEL', key)
    call('HSET', key, 'job', job, 'pool', pool, 'request', request, 'at', string.format('%.0f', now))
  end
  call('HSET', key, 'client:' .. client, '1')
  if stays then
    call('HSET', key, 'detached', '1')
  end
  call('EXPIRE', key, tonumber(lifetime))
  return result
end
