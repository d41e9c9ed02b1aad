-- A job's record, without its texts. nil: there is none (a body put ahead of its submit is none yet).
local JOB_S, DONE_JOB_S, DONE_REPLY_S, CANCELLED_REPLY_S = 3600, 600, 60, 2
-- `v`: its fields as `read` asks for them, or the first of these.
local function as_read(id, key, v)
  if not v[1] then
    return nil
  end
  return {
    id = id, key = key, st = v[1], fence = tonumber(v[2]), under = v[2], n = tonumber(v[3]), model = v[4], lane = v[5],
    user = v[6], inbox = v[7], entry = v[8] or '', backend = v[9] or '', det = v[10] == '1', cancel = v[11] or '', tag = tonumber(v[12]),
    cost = tonumber(v[13]), first = v[14],
    worker = v[15] or '', score = tonumber(v[16]), due = tonumber(v[17]), arr = tonumber(v[18]), kv = tonumber(v[19]),
    prefill = tonumber(v[20]), long = tonumber(v[21]), deadline = tonumber(v[22]), taken = tonumber(v[23]), fails = tonumber(v[24]),
    read = tonumber(v[25] or '0'), inputs = tonumber(v[26] or '0'), left = v[27] or '', left_until = tonumber(v[28] or '0'),
    timeout = tonumber(v[29] or '120000000'), able_until = tonumber(v[30] or '0'), base = v[31] or '',
    prompt = tonumber(v[32] or v[20]), splits = v[33] == '1', upto = tonumber(v[34] or '0'), had = tonumber(v[35] or '0'),
    near = v[36] or '', behind = v[37] or '', floor = v[38], owner = v[39] or '', share = tonumber(v[40] or '0'), started = v[41],
    tries = tonumber(v[42] or '0'),
  }
end
local function read(id)
  local key = P .. 'job:' .. id
  return as_read(id, key, call('HMGET', key, 'st', 'fence', 'n', 'model', 'lane', 'user', 'inbox', 'entry', 'backend', 'det', 'cancel',
    'tag', 'cost', 'first', 'worker', 'score', 'due', 'arr', 'kv', 'prefill', 'long', 'deadline', 'taken', 'fails', 'read', 'inputs',
    'left', 'left_until', 'timeout', 'able_until', 'base', 'prompt', 'splits', 'upto', 'had', 'near', 'behind', 'floor', 'owner', 'share',
    'started', 'tries'))
end
-- What a running job takes of its back end: of prefill, what was sent to be read and is not yet; for `fast`, nobody is to wait.
local function share(j)
  local had = j.had
  if j.read == j.fence then
    had = j.upto
  end
  local prefill = j.lane == 'fast' and 0 or j.upto - had
  return format('%d,%d,%d,%s,%s,%s,%d,%d,%d', j.kv, prefill, j.long, j.lane, int(j.arr), int(j.score), j.prompt, j.upto, had)
end
