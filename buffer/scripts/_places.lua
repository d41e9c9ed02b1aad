-- How many jobs of a model a back end takes, for those that pull for others of the same model. Written where it has changed; by pcall, since it
-- must not stop a pull while memory is full.
local function note_places(backend, slots, model)
  local key = P .. 'places:' .. model
  if tonumber(call('HGET', key, backend) or '') ~= slots then
    redis.pcall('HSET', key, backend, int(slots))
    call('EXPIRE', key, 3600)
  end
end
