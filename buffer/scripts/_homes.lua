-- Whether an inbox is there, asked once for each.
local homes = {}
local function at_home(inbox)
  if homes[inbox] == nil then
    homes[inbox] = call('EXISTS', P .. 'inbox:' .. inbox) == 1
  end
  return homes[inbox]
end
