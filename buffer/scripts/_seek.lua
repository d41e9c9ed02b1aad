-- The first of a sorted set that has not been looked at, and its score. An id begins at `from` of a member. Those that have been stay
-- where they are, so each is passed by once.
local passed = {}
local function unseen(key, from, looked)
  local at, more = passed[key] or 0, 0
  while true do
    local top = call('ZRANGE', key, at, at + more, 'WITHSCORES')
    for i = 1, #top, 2 do
      if not looked[string.sub(top[i], from)] then
        passed[key] = at
        return top[i], tonumber(top[i + 1])
      end
      at = at + 1
    end
    if #top < 2 * (more + 1) then
      passed[key] = at
      return nil
    end
    more = 16
  end
end
