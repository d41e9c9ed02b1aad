-- Standing orders: an idle worker leaves word of what it would have, and whoever submits a job need not wake it to ask for that. Sorted
-- set `standing`: worker → until when, µs; hash `orders:<worker>`: back end → segment, pause, lease, whether it swaps models; and the
-- models, each between two \31.
local MOST_ASKED = '16'
-- Whether a worker would hear of it at once: it is subscribed to the channel of that name for as long as it lives.
local function hears(worker)
  local ctl = P .. 'ctl:' .. worker
  if call('EXISTS', ctl) == 0 then
    return false
  end
  local told = redis.pcall('PUBSUB', 'NUMSUB', ctl)
  return not told.err and tonumber(told[2]) > 0
end
-- A back end on which nothing runs, and one of its workers that would have the job.
local function idle_for(j)
  for _, worker in ipairs(call('ZRANGEBYSCORE', P .. 'standing', NOW, '+inf', 'LIMIT', '0', MOST_ASKED)) do
    local orders = call('HGETALL', P .. 'orders:' .. worker)
    for i = 1, #orders, 2 do
      local backend, order = orders[i], orders[i + 1]
      if (j.near == '' or j.near == backend) and string.find(order, '\31' .. j.model .. '\31', 1, true)
        and call('EXISTS', P .. 'load:' .. backend) == 0 and hears(worker) then
        local segment, pause, lease, swaps = string.match(order, '^(%d+),(%d+),(%d+),(%d)')
        if swaps == '0' or call('HGET', P .. 'memory:' .. backend, 'model') == j.model then
          return worker, backend, tonumber(segment), tonumber(pause), tonumber(lease)
        end
      end
    end
  end
  return nil
end
-- The back end, if the job went to one of its workers. Nobody waits, and nothing runs there: of all that a pull weighs, nothing weighs
-- anything. Its gateway learns of the start by the answer to its submit, and is not woken once more.
local function offered(j)
  if j.lane == 'background' or j.behind ~= '' then
    return nil
  end
  local queue = j.model .. ':' .. j.lane
  if call('EXISTS', P .. 'wait:' .. queue, P .. 'turn:' .. queue) > 0 then
    -- Of a job whose record was lost: a pull finds that.
    return nil
  end
  local worker, backend, segment, pause, lease = idle_for(j)
  if not worker then
    return nil
  end
  j.backend, j.had = backend, j.prompt - j.prefill
  j.upto = next_upto(j.lane, j.prompt, j.had, j.splits, {segment = segment, free = 1}, false)
  local fields = granted_to(worker, int(now + lease), j)
  clock(P .. 'fair:' .. queue, j.tag)
  if segment > 0 then
    local heed, pace = P .. 'heed:' .. backend, P .. 'pace:' .. backend
    call('HSET', heed, 'until', int(now + HEED))
    call('EXPIRE', heed, HEED_S)
    if j.lane ~= 'fast' then
      paced(pace, tonumber(call('GET', pace) or '0'), segment, pause, j.upto - j.had)
    end
  end
  local told = {}
  for i, field in ipairs(fields) do
    told[2 * i - 1], told[2 * i] = int(i), type(field) == 'number' and int(field) or field
  end
  call('XADD', P .. 'ctl:' .. worker, '*', 'k', 'grant', 'b', backend, unpack(told))
  return backend
end
