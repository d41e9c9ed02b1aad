-- Workers with standing orders wait for the bell alone: most of what comes in for them needs no asking.
local function ring()
  if call('EXISTS', P .. 'standing') == 1 then
    call('XADD', P .. 'bell', 'MAXLEN', '16', '*', 'k', 'job')
  end
end
