-- In a script that knows nothing of standing orders.
local function offered()
  return nil
end
