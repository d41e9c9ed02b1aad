-- Whether the attempt under this older fence is to go on with the running job under its new one, or has just been told to.
local function heir(key, fence, current)
  local v = call('HMGET', key, 'adopt', 'adopted')
  return v[1] == fence or v[2] == fence .. ':' .. current
end
