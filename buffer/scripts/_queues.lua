-- Who waits, and who of them comes next. `queues`: model, lane and name of those in which somebody waits; `background`: whether one of
-- them is of that lane.
-- Who stands first in a queue by score is asked once, until somebody leaves it; and so it is with who does by turn.
local function top_of(q)
  if q.top == nil then
    local top = call('ZRANGE', P .. 'wait:' .. q.name, '0', '0', 'WITHSCORES')
    q.top, q.score = top[1] or false, tonumber(top[2] or '')
  end
  return q.top
end
local function turn_of(q)
  if q.turn == nil then
    q.turn = call('ZRANGE', P .. 'turn:' .. q.name, '0', '0')[1] or false
  end
  return q.turn
end
-- This job has left its queue; nil: one has that may have stood in any.
local function look_anew(queues, j)
  for _, q in ipairs(queues) do
    if not j or (q.model == j.model and q.lane == j.lane) then
      q.top, q.turn = nil, nil
    end
  end
end
-- One of this job's queue was looked at, and left.
local function looked_at(queues, j)
  for _, q in ipairs(queues) do
    if q.model == j.model and q.lane == j.lane then
      q.looks = q.looks + 1
    end
  end
end
local function waiting_queues(models, allowed_lanes)
  local queues = {background = false}
  for _, lane in ipairs(allowed_lanes) do
    for _, model in ipairs(models) do
      local q = {model = model, lane = lane, name = model .. ':' .. lane, looks = 0}
      if top_of(q) then
        queues[#queues + 1] = q
        queues.background = queues.background or lane == 'background'
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
      local top = top_of(q)
      if top and (not best or q.score < best_score) then
        best, best_score, head = q, q.score, top
      end
    end
  end
  if not best then
    return nil
  end
  local turn = turn_of(best)
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
    for _, id in ipairs(call('ZRANGE', key, '0', '-1')) do
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
