local ROOM_S = 31 * 86400
local WORK_S = 2 * 86400
