-- Who waits, and who of them comes next. `queues`: model, lane and name of those in which somebody waits.
local function waiting_queues(models, allowed_lanes)
  local queues = {}
  for _, lane in ipairs(allowed_lanes) do
    for _, model in ipairs(models) do
      local name = model .. ':' .. lane
      if call('EXISTS', P .. 'wait:' .. name) == 1 then
        queues[#queues + 1] = {model = model, lane = lane, name = name, looks = 0}
      end
    end
  end
  return queues
end
local LOOK_LANE = 4
local function open(q, quiet, short)
  return q.looks < LOOK_LANE and (q.lane ~= 'background' or quiet) and (not short or first_class(q.lane))
end
-- The lowest score first, and within its queue whose turn it is; if that one was looked at, by score alone, or with `by_turn` each
-- queue's next by turn. With `short`, of the short lanes only.
local function candidate(queues, looked, quiet, short, by_turn)
  local best, best_score, head
  for _, q in ipairs(queues) do
    if open(q, quiet, short) then
      local top = call('ZRANGE', P .. 'wait:' .. q.name, 0, 0, 'WITHSCORES')
      if top[1] and (not best or tonumber(top[2]) < best_score) then
        best, best_score, head = q, tonumber(top[2]), top[1]
      end
    end
  end
  if not best then
    return nil
  end
  local turn = call('ZRANGE', P .. 'turn:' .. best.name, 0, 0)[1]
  local id = turn and string.sub(turn, 18) or head
  if not looked[id] then
    return {id = id, model = best.model, queue = best, turn = turn}
  end
  local found
  for _, q in ipairs(queues) do
    if open(q, quiet, short) then
      local score
      turn = nil
      if by_turn then
        turn = unseen(P .. 'turn:' .. q.name, 18, looked)
        id, score = turn and string.sub(turn, 18), turn and tonumber(string.sub(turn, 1, 16))
      else
        id, score = unseen(P .. 'wait:' .. q.name, 1, looked)
      end
      if id and (not found or score < best_score) then
        found, best_score = {id = id, model = q.model, queue = q, turn = turn}, score
      end
    end
  end
  return found
end
-- The next that one of `left_by` leaves to others.
local function next_left(models, left_by, looked)
  for _, model in ipairs(models) do
    local key = P .. 'left:' .. model
    call('ZREMRANGEBYSCORE', key, '-inf', int(now))
    for _, id in ipairs(call('ZRANGE', key, 0, -1)) do
      local told = call('HMGET', P .. 'job:' .. id, 'st', 'left')
      if told[1] == 'waiting' and left_by[told[2]] and not looked[id] then
        looked[id] = true
        return {id = id, model = model}
      end
    end
  end
  return nil
end
-- The job whose longest wait is over first, or will be.
local function lowest_due(models, looked)
  local best, best_due
  for _, model in ipairs(models) do
    local id, due = unseen(P .. 'due:' .. model, 1, looked)
    if id and (not best or due < best_due) then
      best, best_due = {id = id, model = model}, due
    end
  end
  return best, best_due
end
-- Whether somebody has waited for more than a quarter of the longest wait.
local function somebody_waited(models)
  local oldest, due = lowest_due(models, {})
  local arr = oldest and tonumber(call('HGET', P .. 'job:' .. oldest.id, 'arr') or '')
  return arr and now - arr > (due - arr) / 4
end
-- Out of where it was found.
local function away(c)
  if c.queue then
    local score = call('ZSCORE', P .. 'wait:' .. c.queue.name, c.id)
    call('ZREM', P .. 'wait:' .. c.queue.name, c.id)
    if score then
      call('ZREM', P .. 'turn:' .. c.queue.name, turn_member({score = tonumber(score), id = c.id}))
    end
    if c.turn then
      call('ZREM', P .. 'turn:' .. c.queue.name, c.turn)
    end
  end
  call('ZREM', P .. 'due:' .. c.model, c.id)
end
